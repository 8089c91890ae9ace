// Package poison makes use of memory that was given back visible in tests.
package poison
