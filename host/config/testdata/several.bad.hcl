kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "a" {
  sink   = "file"
  topics = ["x"]
  tasks  = "x"
  bath {
  }
  put_timeout = 5
}

connector "b" {
  sinc = "file"
}
