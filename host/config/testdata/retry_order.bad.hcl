kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  retry {
    initial = "10s"
    max     = "1s"
  }
}
