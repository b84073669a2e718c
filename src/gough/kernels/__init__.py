"""A CasADi graph as machine code over many samples, or as C source; knows no robots.

    casadi.Function -- tape --> scalar operations -- codegen, driver, vectormath --> LLVM IR -- compiler --> Kernel
                                                  -- c_source --> C99
"""
