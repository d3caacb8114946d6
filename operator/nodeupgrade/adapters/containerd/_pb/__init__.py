"""Generated protobuf modules; see tools/generate_protobuf.py."""
