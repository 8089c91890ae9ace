kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  properties = {
    "tasks.mxa"                = "3"
    "share.max.delivery.count" = "9"
    "errors.tolerance"         = "some"
    "transforms"               = "a"
    "connector.class"          = "x"
    "key.converter"            = "com.example.Avro"
    "producer.override.acks"   = "1"
    "errors.retry.timeout"     = "0"
  }
}
