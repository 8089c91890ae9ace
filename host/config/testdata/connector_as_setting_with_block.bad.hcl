connector = "a" {
}
