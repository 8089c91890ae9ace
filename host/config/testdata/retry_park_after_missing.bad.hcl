kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "share"
  retry {
    topic = "retry.orders"
  }
  dead_letter_queue {
    topic = "dlq.orders"
  }
}
