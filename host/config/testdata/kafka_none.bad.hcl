connector "orders" {
  sink   = "file"
  topics = ["orders"]
}
