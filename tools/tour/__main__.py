"""Run the tour as `python -m tools.tour`."""

from tools.tour.show import main

main()
