connector "c3" {
  sink   = "file"
  topics = ["t3"]
}
