cpdef bint unbound(object value) except -1
