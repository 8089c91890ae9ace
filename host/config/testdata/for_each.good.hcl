kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  for_each = { eu = 1, us = 2 }
  sink     = "process:file"
  topics   = ["orders.${each.key}"]
  tasks    = each.value
  config {
    path = "out/${each.key}.jsonl"
  }
}
