kafka "main" {
  bootstrap = [BOOTSTRAP]
}
