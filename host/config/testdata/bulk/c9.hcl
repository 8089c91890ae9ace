connector "c9" {
  sink   = "file"
  topics = ["t9"]
}
