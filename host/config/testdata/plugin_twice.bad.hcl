plugin "acme" {
}

plugin "acme" {
}
