connector "c7" {
  sink   = "file"
  topics = ["t7"]
}
