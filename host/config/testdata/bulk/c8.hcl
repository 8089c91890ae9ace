connector "c8" {
  sink   = "file"
  topics = ["t8"
}
