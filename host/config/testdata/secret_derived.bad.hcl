kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

locals {
  pw = secret("s3cr3t-canary")
}

connector "orders" {
  sink     = "file"
  topics   = ["orders"]
  group_id = "g-${upper(local.pw)}"
}
