"""Any environment of gymnasium's registry that draws itself and tells success. Light half."""

from motionkit.environments.gymnasium._settings import GymnasiumSettings
from motionkit.plugins import Component

component = Component(
    summary="An environment of gymnasium's registry that has a picture and tells success.",
    options=GymnasiumSettings,
    factory="motionkit.environments.gymnasium._environment:GymnasiumEnvironment",
)
