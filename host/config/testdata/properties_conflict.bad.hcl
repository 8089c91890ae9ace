kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  tasks = 2
  value {
    converter = "json"
  }
  properties = {
    "tasks.max"       = "3"
    "value.converter" = "string"
  }
}
