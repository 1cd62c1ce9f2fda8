from simulator.look_ahead import LookAhead

policy = LookAhead()
