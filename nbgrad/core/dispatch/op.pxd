from nbgrad.core.dispatch.table cimport Op

# The operators and methods of Tensor are closures made here, which call a row without asking what it is.
