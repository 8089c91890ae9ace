conector "a" {
}
