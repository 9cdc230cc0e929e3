"""What a program becomes, exactly: each rule, hypothesis and closed form once."""
