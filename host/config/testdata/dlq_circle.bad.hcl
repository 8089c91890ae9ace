kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "a" {
  sink   = "file"
  topics = ["x"]
  dead_letter_queue {
    topic = "y"
  }
}

connector "b" {
  sink   = "file"
  topics = ["y"]
  dead_letter_queue {
    topic = "z"
  }
}

connector "c" {
  sink   = "file"
  topics = ["z"]
  dead_letter_queue {
    topic = "x"
  }
}

