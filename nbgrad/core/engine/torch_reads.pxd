cdef extern from "torch_reads.h":
    # A node of torch's. check_size ignore: Cython need not know its size.
    ctypedef class nbgrad.core.engine.builtin_classes.AnyNode [object AnyNodeObject, check_size ignore]:
        @property
        cdef inline object metadata(self):
            return node_metadata(self)

        @property
        cdef inline object next_functions(self):
            return node_next_functions(self)

    # check_size ignore: Cython need not know its size.
    ctypedef class torch.Tensor [object PyObject, check_size ignore]:
        @property
        cdef inline object is_nested(self):
            return tensor_is_nested(self)

        @property
        cdef inline object grad(self):
            return tensor_grad(self)

        @property
        cdef inline object requires_grad(self):
            return tensor_requires_grad(self)

        @property
        cdef inline object grad_fn(self):
            return tensor_grad_fn(self)

        @property
        cdef inline object output_nr(self):
            return tensor_output_nr(self)

        @property
        cdef inline object shape(self):
            return tensor_shape(self)

        @property
        cdef inline object dtype(self):
            return tensor_dtype(self)

        @property
        cdef inline object is_cpu(self):
            return tensor_is_cpu(self)

        @property
        cdef inline object device(self):
            return tensor_device(self)

        @property
        cdef inline object layout(self):
            return tensor_layout(self)

        @property
        cdef inline object nbytes(self):
            return tensor_nbytes(self)

        @property
        cdef inline object _version(self):
            return tensor_version(self)

        @property
        cdef inline object _base(self):
            return tensor_base(self)

        @property
        cdef inline object _backward_hooks(self):
            return tensor_hooks(self)

        @property
        cdef inline object _post_accumulate_grad_hooks(self):
            return tensor_hooks_after(self)

        @property
        cdef inline object numbers(self):
            return tensor_numbers(self)

        @property
        cdef inline object number(self):
            return tensor_number(self)

        @property
        cdef inline object sample(self):
            return tensor_sample(self)

        @property
        cdef inline tuple facts(self):
            return tensor_facts(self)

        @property
        cdef inline tuple facts_and_numbers(self):
            return tensor_facts_and_numbers(self)

    object node_metadata(AnyNode node)
    object node_next_functions(AnyNode node)
    object tensor_numbers(Tensor tensor)
    object tensor_number(Tensor tensor)
    object tensor_sample(Tensor tensor)
    tuple tensor_facts(Tensor tensor)
    tuple tensor_facts_and_numbers(Tensor tensor)
    object tensor_is_nested(Tensor tensor)
    object tensor_grad(Tensor tensor)
    object tensor_requires_grad(Tensor tensor)
    object tensor_grad_fn(Tensor tensor)
    object tensor_output_nr(Tensor tensor)
    object tensor_shape(Tensor tensor)
    object tensor_dtype(Tensor tensor)
    object tensor_is_cpu(Tensor tensor)
    object tensor_device(Tensor tensor)
    object tensor_layout(Tensor tensor)
    object tensor_nbytes(Tensor tensor)
    object tensor_version(Tensor tensor)
    object tensor_base(Tensor tensor)
    object tensor_hooks(Tensor tensor)
    object tensor_hooks_after(Tensor tensor)

cdef bint _COMPILED

cpdef tuple read_tensor(Tensor tensor, bint numbers)
cpdef object numbers_of(Tensor tensor)
cpdef object number_of(Tensor tensor)
cpdef object sample_of(Tensor tensor)
