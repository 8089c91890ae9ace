kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "share"
  retry {
    park_after = "10s"
    topic      = "retry.orders"
  }
  dead_letter_queue {
    topic = "dlq.orders"
  }
}
