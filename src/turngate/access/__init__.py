"""Whose request it is, and what that tenant may do: decided before a byte of it goes anywhere.

keys      gate keys, `tgk_ID_SECRET`: what an agent holds in place of a provider's credential
tenant    from a request's header fields to the tenant, and to the fields that may cross
allowance what each tenant uses now, held against its limits
desk      all of them together: who is let in, and where the provider's credential is put
"""
