# Compiled as it stands: the operators of Tensor are closures made here.
