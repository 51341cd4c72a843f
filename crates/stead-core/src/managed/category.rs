//! The categories of managed files, and which one a name belongs to.

use std::fmt;
use std::str::FromStr;

/// The category of a managed file: the first directory of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Scripts and source files.
    Code,
    /// Reports, Markdown and other texts.
    Documents,
    /// Tables, JSON, YAML and other data.
    Data,
    /// Pictures.
    Images,
    /// Fetched files and archives.
    Downloads,
    /// Files that are needed for a short time, and files of no other category.
    Temp,
}

/// There is no category with this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown file category: {}; there are code, documents, data, images, downloads and temp", .0.escape_debug())]
pub struct UnknownCategory(pub String);

impl Category {
    /// All categories.
    pub const ALL: [Category; 6] = [
        Category::Code,
        Category::Documents,
        Category::Data,
        Category::Images,
        Category::Downloads,
        Category::Temp,
    ];

    /// The names of all categories, in the same order.
    pub const NAMES: [&'static str; 6] = ["code", "documents", "data", "images", "downloads", "temp"];

    /// The name of the category and of its directory.
    pub fn as_str(self) -> &'static str {
        Category::NAMES[self as usize]
    }

    /// The category of a file with this name, by its extension; upper and lower case are equal.
    ///
    /// A name that only begins with a dot, such as `.env`, has no extension.
    pub fn of_name(name: &str) -> Category {
        let extension = match name.rsplit_once('.') {
            Some(("", _)) | None => return Category::Temp,
            Some((_, extension)) => extension.to_ascii_lowercase(),
        };
        match &*extension {
            "py" | "rs" | "js" | "ts" | "sh" | "rb" | "go" | "java" | "c" | "cpp" | "html" | "css"
            | "sql" => Category::Code,
            "md" | "txt" | "doc" | "docx" | "rtf" => Category::Documents,
            "csv" | "json" | "yaml" | "yml" | "xml" | "toml" | "parquet" => Category::Data,
            "png" | "jpg" | "jpeg" | "gif" | "svg" | "webp" | "bmp" => Category::Images,
            "pdf" | "zip" | "tar" | "gz" | "epub" => Category::Downloads,
            _ => Category::Temp,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Category {
    type Err = UnknownCategory;

    fn from_str(text: &str) -> Result<Self, UnknownCategory> {
        let found = Category::ALL.into_iter().find(|category| category.as_str() == text);
        found.ok_or_else(|| UnknownCategory(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_are(category: Category, extensions: &str) {
        for extension in extensions.split(' ') {
            assert_eq!(Category::of_name(&format!("name.{extension}")), category, "{extension}");
        }
    }

    #[test]
    fn w2_every_code_extension_of_the_seed_is_code() {
        all_are(Category::Code, "py rs js ts sh rb go java c cpp html css sql");
    }

    #[test]
    fn w3_texts_are_documents() {
        all_are(Category::Documents, "md txt doc docx rtf");
    }

    #[test]
    fn w4_tables_and_structured_texts_are_data() {
        all_are(Category::Data, "csv json yaml yml xml toml parquet");
    }

    #[test]
    fn w5_pictures_are_images() {
        all_are(Category::Images, "png jpg jpeg gif svg webp bmp");
    }

    #[test]
    fn w6_archives_and_books_are_downloads() {
        all_are(Category::Downloads, "pdf zip tar gz epub");
    }

    #[test]
    fn w7_a_missing_or_unknown_extension_is_temp() {
        for name in ["Makefile", "x.xyz", "trailing.", "a b"] {
            assert_eq!(Category::of_name(name), Category::Temp, "{name}");
        }
    }

    #[test]
    fn w8_upper_case_extensions_count_as_lower_case_ones() {
        assert_eq!(Category::of_name("Main.PY"), Category::Code);
        assert_eq!(Category::of_name("PHOTO.JpEg"), Category::Images);
    }

    #[test]
    fn w9_only_the_last_extension_counts_and_a_leading_dot_begins_none() {
        assert_eq!(Category::of_name("my.backup.tar.gz"), Category::Downloads);
        assert_eq!(Category::of_name(".env"), Category::Temp);
        assert_eq!(Category::of_name(".py"), Category::Temp);
        assert_eq!(Category::of_name(".hidden.py"), Category::Code);
    }

    #[test]
    fn w50_an_unknown_category_is_named_in_the_error() {
        let error = "x".parse::<Category>().unwrap_err().to_string();
        assert!(error.starts_with("unknown file category: x"), "{error}");
        for category in Category::ALL {
            assert_eq!(category.as_str().parse::<Category>().unwrap(), category);
        }
    }
}
