kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "con\n" {
  sink   = "file"
  topics = ["orders"]
}
