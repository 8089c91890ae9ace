kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  for_each = 3
}

connector "b" {
  for_each = ["a", "a", "x/y"]
  sink     = "file"
  topics   = ["o"]
}
