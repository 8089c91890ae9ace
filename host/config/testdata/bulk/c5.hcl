connector "c5" {
  sink   = "file"
  topics = ["t5"]
}
