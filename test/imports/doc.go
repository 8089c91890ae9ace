// Package imports holds the test of the import direction: which package of the module may depend on which, and which may know a large
// library. The linter (depguard) says the same of single files; this test looks at everything a package drags in.
package imports
