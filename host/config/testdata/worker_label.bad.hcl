worker "a" {
}
