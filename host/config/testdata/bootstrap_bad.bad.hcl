kafka "main" {
  bootstrap = ["broker", "http://broker:9092", "a:1,b:2", "c:99999"]
}
