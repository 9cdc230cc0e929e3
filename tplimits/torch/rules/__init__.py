"""What each operation says of the axes of its operands and results, which `tplimits.torch.axes` collects."""
