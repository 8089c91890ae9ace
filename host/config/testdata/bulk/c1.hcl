connector "c1" {
  sink   = "file"
  topics = ["t1"]
}
