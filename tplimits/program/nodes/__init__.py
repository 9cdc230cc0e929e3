"""What a program is: kinds of instructions and their specification, expressions, and running them at width n."""
