"""Update rules, one module each, behind `base.Algorithm`: how scored samples become a gradient."""
