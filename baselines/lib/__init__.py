"""What policies share: orders, seats, shapes, victims, cores, estimates of speed."""
