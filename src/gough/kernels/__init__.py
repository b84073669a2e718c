"""A CasADi graph as machine code over many samples, or as C source; knows no robots.

casadi.Function -- tape --> scalar operations
scalar operations -- codegen, vectormath --> LLVM IR -- kernel --> Kernel
scalar operations -- c_source --> C99
"""
