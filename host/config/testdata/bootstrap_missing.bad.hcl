kafka "main" {
}
