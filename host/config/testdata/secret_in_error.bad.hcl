locals {
  x = jsondecode(secret("s3cr3t-canary"))
  y = tonumber(secret("s3cr3t-canary"))
}
