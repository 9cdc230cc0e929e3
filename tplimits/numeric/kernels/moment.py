"""TEMPORARY"""
from functools import lru_cache
import numpy, sympy
from tplimits.limit.closed_forms.table import close
from tplimits.limit.closed_forms.integrand import Law, NotClosed, step_products
from tplimits.program.functions import elementary
from tplimits.limit.expectation import Expectations
from tplimits.limit.gaussians import Gaussians, InitialSource, HatSource
from tplimits.program.evaluate import evaluate
@lru_cache(None)
def closed(F, zs, params):
    g=Gaussians(); names=[]
    syms=[]
    k=len(zs)
    C=[[None]*k for _ in range(k)]
    for i in range(k):
        for j in range(i,k):
            s=sympy.Symbol(f"c{i+1}{j+1}", positive=(i==j) or None, real=True); syms.append(s); C[i][j]=C[j][i]=s
    view=(0,(),False)
    m=[g.add(z.name, HatSource(view,i)) for i,z in enumerate(zs)]
    g.hat_covariance=lambda a,b: C[a.use][b.use]
    e=Expectations(g)
    v=e.mean(F)
    if e.moments: return None
    return v, tuple(syms)
x,w=numpy.polynomial.hermite_e.hermegauss(80); w=w/w.sum()
def evaluated_moment(moment, cov, vals, constants):
    r=closed(moment.integrand, moment.variables, moment.parameters)
    if r is not None:
        v,syms=r
        known=dict(zip(syms,cov)); known.update(zip(moment.parameters,vals)); known.update(constants)
        if len(moment.variables)==2:
            lim=numpy.sqrt(cov[0]*cov[2]); known[syms[1]]=numpy.clip(cov[1],-lim*(1-1e-15),lim*(1-1e-15))
        return evaluate(v,known),0.0
    k=len(moment.variables)
    shape=numpy.broadcast_shapes(*(c.shape for c in cov),*(v.shape for v in vals))
    C=numpy.zeros((*shape,k,k)); it=iter(cov)
    for i in range(k):
        for j in range(i,k):
            C[...,i,j]=C[...,j,i]=next(it)
    L=numpy.linalg.cholesky(C+1e-13*numpy.eye(k))
    n = {1:80,2:60,3:24,4:14}[k]
    x,w=numpy.polynomial.hermite_e.hermegauss(n); w=w/w.sum()
    G=numpy.stack(numpy.meshgrid(*[x]*k,indexing='ij'),-1).reshape(-1,k); W=numpy.prod(numpy.stack(numpy.meshgrid(*[w]*k,indexing='ij'),-1).reshape(-1,k),-1)
    Z=numpy.einsum('...ij,gj->...gi',L,G)
    known={z:Z[...,i] for i,z in enumerate(moment.variables)}
    known.update({p:v[...,None] for p,v in zip(moment.parameters,vals)}); known.update(constants)
    return (evaluate(moment.integrand,known)*W).sum(-1),0.0
