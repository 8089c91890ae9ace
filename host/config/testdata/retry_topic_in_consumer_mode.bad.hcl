kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  retry {
    park_after = "10s"
    topic      = "retry.orders"
  }
}
