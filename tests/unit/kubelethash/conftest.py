from hypothesis import settings

# Composing a minor's renderers takes its time once, and machines are shared: slowness is not what these tests look for.
settings.register_profile("kubelethash", deadline=None)
settings.load_profile("kubelethash")
