// Package config reads Sluice's HCL files into typed definitions: the worker,
// its Kafka connections, pins of plugins, and connectors.
//
// [Load] is its main entry. It reports every problem it finds, each with file,
// line and what to do about it, and returns the connectors that are right next
// to those that are not, so that one bad connector never blocks the others.
// [Connector.CheckSettings] then checks a connector's own settings against its
// plugin's description.
//
// The package opens no connection and starts nothing. It does not know which
// plugins exist, nor what a broker allows.
//
// # Paths
//
// A relative path in a file (ca_file, plugin_path, state_dir, file("…")) is
// taken from the directory of that file, wherever the command was run. The
// settings in a connector's config block belong to its plugin, so a path in
// them is given to the plugin as it is written; "${path.module}/x" names a
// file next to the configuration.
//
// # Secrets
//
// A value marked by secret(…), or written to a setting that holds a secret, is
// a [Secret] from then on. Everything derived from a marked value is marked.
// Diagnostics, their source lines and every way to print a definition show
// "(secret)" in its place.
package config
