kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  group_protocol = "share"
  share {
    max_delivery_count = 9
  }
  dead_letter_queue {
    topic = "d"
  }
}
