kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "ordered" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "consumer"
  dead_letter_queue {
    topic  = "dlq.ordered"
    broker = true
  }
}

connector "torn" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "share"
  dead_letter_queue {
    topic  = "dlq.torn"
    net    = false
    broker = true
  }
}

connector "good" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "share"
  dead_letter_queue {
    topic  = "dlq.good"
    broker = true
  }
}
