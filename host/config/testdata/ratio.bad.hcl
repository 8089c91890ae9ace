kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  dead_letter_queue {
    topic     = "d"
    max_ratio = 50
  }
}

connector "payments" {
  sink   = "file"
  topics = ["payments"]
  dead_letter_queue {
    topic     = "p"
    max_ratio = "half"
  }
  isolate {
    attempts = 0
  }
}
