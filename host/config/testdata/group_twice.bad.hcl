kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "a" {
  sink     = "file"
  topics   = ["x"]
  group_id = "g"
}

connector "b" {
  sink     = "file"
  topics   = ["y"]
  group_id = "g"
}
