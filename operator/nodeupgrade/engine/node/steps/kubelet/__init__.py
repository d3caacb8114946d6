"""Steps that change the kubelet: its process, program, arguments, state files and static pods."""
